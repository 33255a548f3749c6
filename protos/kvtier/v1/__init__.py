"""The API: messages and stubs generated from the proto files beside them."""
