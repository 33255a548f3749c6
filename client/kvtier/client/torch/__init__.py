"""Between an engine's paged KV tensors and the payloads of blocks; it alone needs torch.

`PagedKV` gathers blocks of the engine's tensors into payloads and scatters payloads into them, on
the CPU and on a GPU. `buffers` gives payloads to `NodeClient.store`. A tensor of payloads on a GPU
goes to CuPy without a copy by `cupy.from_dlpack`, and `map_gpu_tier` makes a GPU tier of this host
a tensor.
"""

from kvtier.client.torch.buffers import buffers
from kvtier.client.torch.paged import PagedKV
from kvtier.client.torch.sharing import map_gpu_tier

__all__ = ["PagedKV", "buffers", "map_gpu_tier"]
