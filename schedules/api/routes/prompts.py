"""Routes of prompts for agents that run on their own: claim what is due, and complete it."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.prompts import ClaimIn, ClaimOut, CompleteIn
from schedules.api.schemas.runs import RunOut
from schedules.services.runs import inbox

router = Router(tags=["prompts"])
route(router, "POST /claim", inbox.claim_prompts, ClaimOut, body=ClaimIn, is_optional=True)
route(router, "POST /{int:run}/complete", inbox.complete_prompt, RunOut, body=CompleteIn)
