"""Routes of channels: list, set, test, confirm, rename and delete; the events of webhooks."""

from ninja import Router

from schedules.api.endpoints import route
from schedules.api.schemas.channels import (
    ChannelIn,
    ChannelOut,
    ChannelsOut,
    CodeIn,
    DeliveriesOut,
    DeliveryOut,
    NewName,
    SavedChannelOut,
    TestedOut,
)
from schedules.services.people import operations

router = Router(tags=["channels"])

route(router, "GET ", operations.list_channels, ChannelsOut)
route(router, "PUT /{channel}", operations.set_channel, SavedChannelOut, body=ChannelIn)
route(router, "POST /{channel}/test", operations.test_channel, TestedOut, repeatable=False)
route(router, "POST /{channel}/confirm", operations.confirm_channel, None, body=CodeIn)
route(router, "POST /{channel}/rename", operations.rename_channel, None, body=NewName)
route(router, "DELETE /{channel}", operations.delete_channel, None)
route(router, "POST /{channel}/on", operations.switch_channel_on, ChannelOut)
route(router, "POST /{channel}/off", operations.switch_channel_off, ChannelOut)
route(router, "POST /{channel}/secret", operations.rotate_channel_secret, SavedChannelOut, repeatable=False)
route(router, "GET /{channel}/deliveries", operations.list_channel_deliveries, DeliveriesOut)
route(
    router,
    "POST /{channel}/deliveries/{int:delivery}/send",
    operations.send_event_again,
    DeliveryOut,
    status=202,
)
