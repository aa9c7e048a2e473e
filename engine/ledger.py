"""The book of requests: who waits, who runs, who has ended, and what each was told; every request ends exactly once."""

from __future__ import annotations

from collections import OrderedDict, deque
from time import monotonic

from engine.request import FinishReason, MLLMRequest, MLLMSchedulerOutput, RequestOutput, RequestStatus
from engine.streams import Streams

_FINISHED_KEPT = 256
_STATUS: dict[FinishReason, RequestStatus] = {
    "stop": RequestStatus.FINISHED_STOPPED,
    "length": RequestStatus.FINISHED_LENGTH_CAPPED,
    "abort": RequestStatus.FINISHED_ABORTED,
    "error": RequestStatus.FINISHED_ERROR,
}


class Ledger:
    """Requests by state, counters over all of them, and the outputs of the current step."""

    def __init__(self) -> None:
        self.requests: dict[str, MLLMRequest] = {}
        self.waiting: deque[MLLMRequest] = deque()
        self.running: dict[str, MLLMRequest] = {}
        self.request_id_to_uid: dict[str, int] = {}
        self.uid_to_request_id: dict[int, str] = {}
        self.finished_ids: set[str] = set()
        """Ended in the current step."""
        self.processed = self.prompt_tokens = self.completion_tokens = 0
        self.streams = Streams()
        self.output = MLLMSchedulerOutput()
        self._finished: OrderedDict[str, None] = OrderedDict()
        self._next_uid = 0

    @property
    def live(self) -> list[MLLMRequest]:
        """Requests that have not ended, in order of arrival."""
        return [request for request in self.requests.values() if not request.status.finished]

    def new_step(self) -> None:
        """Start collecting the outputs of another step."""
        self.output = MLLMSchedulerOutput()
        self.finished_ids = set()

    def add(self, request: MLLMRequest) -> None:
        """Enter a new request at the end of the queue."""
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def admit(self, request: MLLMRequest) -> None:
        """Let a waiting request run."""
        self.waiting.remove(request)
        self._next_uid += 1
        request.batch_uid, request.status, request.wait_reason = self._next_uid, RequestStatus.RUNNING, ""
        self.running[request.request_id] = request
        self.request_id_to_uid[request.request_id] = self._next_uid
        self.uid_to_request_id[self._next_uid] = request.request_id
        self.output.scheduled_request_ids.append(request.request_id)
        self.output.num_scheduled_tokens += request.num_prompt_tokens

    def count(self, request: MLLMRequest, token: int) -> None:
        """Enter one token that a request was given."""
        if request.first_token_time is None:
            request.first_token_time = monotonic()
        request.output_tokens.append(token)
        request.num_output_tokens += 1

    def tell(self, request: MLLMRequest, token: int, text: str) -> None:
        """Hand out a token that was counted, with the text that may be shown now."""
        request.output_text += text
        self._emit(request, (token,), text)

    def finish(
        self,
        request: MLLMRequest,
        reason: FinishReason,
        text: str = "",
        token: int | None = None,
        error: str | None = None,
    ) -> None:
        """End a request: count it, keep it readable for a while, and tell its reader."""
        request_id = request.request_id
        if request in self.waiting:
            self.waiting.remove(request)
        self.running.pop(request_id, None)
        if (uid := self.request_id_to_uid.pop(request_id, None)) is not None:
            del self.uid_to_request_id[uid]
        request.output_text += text
        request.status, request.finish_reason, request.error = _STATUS[reason], reason, error
        request.finish_time = monotonic()
        self.processed += 1
        self.prompt_tokens += request.num_prompt_tokens
        self.completion_tokens += request.num_output_tokens
        self.finished_ids.add(request_id)
        self.output.finished_request_ids.add(request_id)
        self._finished[request_id] = None
        self._emit(request, () if token is None else (token,), text)
        while len(self._finished) > _FINISHED_KEPT:
            self.remove_finished(next(iter(self._finished)))

    def remove_finished(self, request_id: str) -> MLLMRequest | None:
        """Forget a request that has ended; None if there is none with this id."""
        if request_id not in self._finished:
            return None
        del self._finished[request_id]
        self.streams.drop(request_id)
        return self.requests.pop(request_id)

    def forget_finished(self) -> None:
        """Forget every request that has ended; a reader that holds its queue still gets its last outputs."""
        for request_id in list(self._finished):
            self.remove_finished(request_id)

    def _emit(self, request: MLLMRequest, tokens: tuple[int, ...], text: str) -> None:
        output = RequestOutput(
            request_id=request.request_id,
            new_token_ids=tokens,
            new_text=text,
            output_token_ids=tuple(request.output_tokens),
            output_text=request.output_text,
            prompt_tokens=request.num_prompt_tokens,
            completion_tokens=request.num_output_tokens,
            cached_tokens=request.cached_tokens,
            mtp_drafts=request.mtp_drafts,
            mtp_accepted=request.mtp_accepted,
            finished=request.status.finished,
            finish_reason=request.finish_reason,
            error=request.error,
            logprobs=tuple(request.output_logprobs),
        )
        self.output.outputs.append(output)
        self.streams.put(output)
