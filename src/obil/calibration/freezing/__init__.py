"""Turn fitted classifiers and pipelines into arrays that serve without the library that fitted them."""
