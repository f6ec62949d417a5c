"""The page of the user's secrets: list, add, replace and delete, without ever showing a value."""

from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_POST
from django.views.generic import TemplateView

from schedules.result import Err, Ok
from schedules.services.people.stored_secrets import delete_secret, list_secrets, move_expiry, set_secret
from schedules.web.forms.secrets import SecretForm
from schedules.web.messages import add_errors
from schedules.web.views.page import FormPageMixin, actor_of, finish, is_number


class SecretsPage(FormPageMixin, TemplateView):
    template_name = "schedules/secrets.html"

    def make_form(self, data: Any = None) -> SecretForm:
        is_superuser = bool(getattr(self.actor.user, "is_superuser", False))
        return SecretForm(data, initial=self._initial_values(), is_superuser=is_superuser)

    def _initial_values(self) -> dict[str, Any]:
        """Return the form values of the secret to replace, except its value."""
        number = self.request.GET.get("secret", "")
        secret = next((listed for listed in list_secrets(self.actor) if str(listed.number) == number), None)
        if secret is None:
            return {}
        return {
            "name": secret.name,
            "hosts": ", ".join(secret.hosts),
            "commands": ", ".join(secret.commands),
            "of_installation": secret.of_installation,
        }

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        kwargs.setdefault("form", self.make_form())
        return super().get_context_data(secrets=list_secrets(self.actor), **kwargs)

    def post(self, request: HttpRequest) -> HttpResponse:
        if is_number(number := request.POST.get("secret", "")):
            return self._move_expiry(request, int(number))
        form = self.make_form(request.POST)
        if form.is_valid():
            typed = dict(form.cleaned_data)
            expires = typed.pop("expires_at")
            existing = {(listed.name, listed.of_installation) for listed in list_secrets(self.actor)}
            match set_secret(self.actor, **typed, expires=expires):
                case Ok(stored):
                    verb = "Replaced" if (stored.name, stored.of_installation) in existing else "Saved"
                    messages.success(request, f"{verb} {stored.name}.")
                    return HttpResponseRedirect(reverse("schedules:secrets"))
                case Err() as problem:
                    add_errors(form, problem)
        return self.render_to_response(self.get_context_data(form=form), status=422)

    def _move_expiry(self, request: HttpRequest, number: int) -> HttpResponse:
        secret = next((listed for listed in list_secrets(self.actor) if listed.number == number), None)
        if secret is None:
            raise Http404("secret")
        expires = request.POST.get("expires_at", "")
        result = move_expiry(self.actor, secret.name, expires, of_installation=secret.of_installation)
        return finish(request, result, "Changed when {0.name} expires.", reverse("schedules:secrets"))


# Error reports must not contain the value of a secret.
page = sensitive_post_parameters("value")(SecretsPage.as_view())


@require_POST
def delete(request: HttpRequest, secret_id: int) -> HttpResponse:
    actor = actor_of(request)
    secret = next((listed for listed in list_secrets(actor) if listed.number == secret_id), None)
    if secret is None and (name := request.POST.get("shown")):
        messages.warning(request, f"{name[:64]} was deleted already.")
        return HttpResponseRedirect(reverse("schedules:secrets"), status=303)
    if secret is None:
        raise Http404("secret")
    result = delete_secret(actor, secret.name, of_installation=secret.of_installation)
    message = "Deleted {0}. Runs that refer to it fail from now on."
    return finish(request, result, message, reverse("schedules:secrets"))
