from django.contrib import admin

from greetings.models import Greeting

admin.site.register(Greeting)
