"""What runs on the login host or inside the job, as files."""
