"""What nodes say of themselves."""
