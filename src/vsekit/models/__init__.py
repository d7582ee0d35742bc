#: The name, in place of a path, of the model that comes with vsekit.
STARTER = "starter"
