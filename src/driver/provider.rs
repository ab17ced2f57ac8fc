//! How an agent reaches the model provider, and who counts what it costs.
