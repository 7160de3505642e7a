"""The path between GPU and NIC: MaxReadReq, ACS, IOMMU, interrupts, and the unit at boot."""
