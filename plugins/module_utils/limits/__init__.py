"""Memory locking limits: PAM, systemd services, processes that run."""
