"""The study of suite `several`: from device to device, and from NUMA node to NUMA node."""

from clmembench.studies import Study

STUDY = Study(
    name="several",
    title="Several devices and NUMA nodes",
    package=__package__,
    source="NVIDIA nvbandwidth; Intel Memory Latency Checker",
    tables={
        "device_link": "matrices:device_sections",
        "numa_latency": "matrices:numa_sections",
        "numa_bandwidth": "matrices:numa_sections",
    },
    figures={
        "device_link": "curves:device_link",
        "numa_latency": "curves:numa",
        "numa_bandwidth": "curves:numa",
    },
)
