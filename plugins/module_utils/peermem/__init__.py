"""GPUDirect RDMA: dma-buf or nvidia-peermem."""
