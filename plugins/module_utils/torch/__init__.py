"""An interpreter with torch: proven, built or in an image."""
