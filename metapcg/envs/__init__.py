"""How an agent edits a level: representations, the batch engine, Gymnasium environments, rendering."""
