"""The window: widgets that draw what the state says and emit what a person does."""
