"""The URLs of the authorization server, for apps that connect by OAuth."""

from django.urls import path
from oauth2_provider.views import (
    OAuthProtectedResourceMetadataView,
    OAuthServerMetadataView,
    RevokeTokenView,
    TokenView,
)

from schedules.web.oauth import ConsentPage, refuse_nul
from schedules.web.oauth_clients import RegistrationChangeView, RegistrationView

# django-oauth-toolkit looks its URLs up under this name.
app_name = "oauth2_provider"

urlpatterns = [
    path(
        ".well-known/oauth-authorization-server",
        OAuthServerMetadataView.as_view(),
        name="oauth-server-metadata",
    ),
    path(".well-known/oauth-protected-resource", OAuthProtectedResourceMetadataView.as_view()),
    path(".well-known/oauth-protected-resource/mcp", OAuthProtectedResourceMetadataView.as_view()),
    path("oauth/authorize/", refuse_nul(ConsentPage.as_view()), name="authorize"),
    path("oauth/token/", refuse_nul(TokenView.as_view()), name="token"),
    path("oauth/revoke/", refuse_nul(RevokeTokenView.as_view()), name="revoke-token"),
    path("oauth/register/", RegistrationView.as_view(), name="dcr-register"),
    path(
        "oauth/register/<str:client_id>/",
        RegistrationChangeView.as_view(),
        name="dcr-register-management",
    ),
]
