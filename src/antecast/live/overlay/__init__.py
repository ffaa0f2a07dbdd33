"""An overlay of partial views (Spray): members choose their neighbours, and nobody knows everybody."""
