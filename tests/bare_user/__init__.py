"""A project whose user model has only what AbstractBaseUser promises."""
