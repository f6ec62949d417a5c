"""The URLs of the site: the app's pages, the admin, and accounts."""

import sys

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.views import LogoutView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.template import loader
from django.templatetags.static import static
from django.urls import include, path

from cronty_site import accounts
from cronty_site.admin import register_accounts
from schedules.worker.database_errors import TRY_AGAIN, TRY_AGAIN_SECONDS, outage_in

password_reset = [
    path("password/forgotten/", accounts.ForgottenPasswordPage.as_view(), name="password_reset"),
    path(
        "password/forgotten/sent/", accounts.ForgottenPasswordSentPage.as_view(), name="password_reset_done"
    ),
    path("password/new/<uidb64>/<token>/", accounts.NewPasswordPage.as_view(), name="password_reset_confirm"),
    path("password/new/done/", accounts.NewPasswordSetPage.as_view(), name="password_reset_complete"),
]
register_accounts()
handler500 = "cronty_site.urls.server_error"


@login_not_required
def favicon(request: HttpRequest) -> HttpResponse:
    """Redirect to the icon: programs ask for this address without reading a page."""
    return redirect(static("schedules/favicon.ico"))


def server_error(request: HttpRequest) -> HttpResponse:
    """Show the error page; answer 503 if the database is unavailable, because the request may succeed later."""
    # Django calls this while it handles the error; the page is rendered without the request, which may need the database.
    if outage_in(sys.exception()):
        page = loader.render_to_string("500.html", {"outage": TRY_AGAIN})
        return HttpResponse(page, status=503, headers={"Retry-After": str(TRY_AGAIN_SECONDS)})
    return HttpResponse(loader.render_to_string("500.html"), status=500)


urlpatterns = [
    path("favicon.ico", favicon, name="favicon"),
    path("admin/", admin.site.urls),
    path("login/", accounts.LoginPage.as_view(), name="login"),
    path("logout/", login_not_required(LogoutView.as_view(next_page="login")), name="logout"),
    path("password/", accounts.PasswordPage.as_view(), name="password_change"),
    *(password_reset if settings.CRONTY_PASSWORD_RESET else []),
    *([path("", include("cronty_site.oauth_urls"))] if settings.CRONTY_OAUTH else []),
    path("", include("schedules.urls")),
]
