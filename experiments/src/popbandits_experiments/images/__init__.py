"""What a population can learn besides numbers, on small images: schedules of augmentation, and architectures."""
