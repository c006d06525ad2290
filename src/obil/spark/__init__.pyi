from .batch_stream import stream_batches as stream_batches
from .keyed_stream import stream as stream
from .prevalence import estimate_prior as estimate_prior
from .scoring import score as score
