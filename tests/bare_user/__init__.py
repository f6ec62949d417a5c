"""A project whose user model has only the fields of AbstractBaseUser."""
