"""The URLs of the authorization server, for apps that connect by OAuth."""

from django.urls import path
from oauth2_provider.views import (
    DynamicClientRegistrationManagementView,
    OAuthProtectedResourceMetadataView,
    OAuthServerMetadataView,
    RevokeTokenView,
    TokenView,
)

from schedules.web.oauth import ConsentPage, RegistrationView

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
    path("oauth/authorize/", ConsentPage.as_view(), name="authorize"),
    path("oauth/token/", TokenView.as_view(), name="token"),
    path("oauth/revoke/", RevokeTokenView.as_view(), name="revoke-token"),
    path("oauth/register/", RegistrationView.as_view(), name="dcr-register"),
    path(
        "oauth/register/<str:client_id>/",
        DynamicClientRegistrationManagementView.as_view(),
        name="dcr-register-management",
    ),
]
