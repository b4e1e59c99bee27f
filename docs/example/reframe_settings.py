"""Settings of ReFrame for one node: by ReFrame's own processes, or as jobs of Slurm. A site has settings of its own."""

site_configuration = {
    "systems": [
        {
            "name": "node",
            "hostnames": [".*"],
            "partitions": [
                {"name": "local", "scheduler": "local", "launcher": "local", "environs": ["none"]},
                # squeue is Slurm without accounting; elsewhere: slurm
                {"name": "slurm", "scheduler": "squeue", "launcher": "srun", "environs": ["none"], "access": ["--exclusive"]},
            ],
        }
    ],
    "environments": [{"name": "none"}],
}
