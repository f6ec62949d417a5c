"""What a phone needs to install the pages."""

from django.test import Client


def test_manifest_needs_no_login_and_shares_texts_with_the_form_of_a_new_job(client: Client):
    manifest = client.get("/manifest.webmanifest")

    assert manifest["Content-Type"] == "application/manifest+json"
    content = manifest.json()
    assert (content["start_url"], content["display"]) == ("/", "standalone")
    assert content["share_target"]["action"] == "/jobs/new/"
    assert [client.get(icon["src"]).status_code for icon in content["icons"]] != []


def test_worker_keeps_only_static_files_and_the_offline_page(client: Client):
    worker = client.get("/worker.js")
    text = worker.content.decode()

    assert worker["Content-Type"].startswith("text/javascript")
    kept = text.partition("const KEPT = [")[2].partition("]")[0]
    assert kept.startswith("OFFLINE, ")
    assert all("static" in path for path in kept.split(", ")[1:])
    # What is fetched later is not added to what is kept.
    assert ".put(" not in text


def test_policy_allows_the_worker_and_the_manifest_of_this_site_only(client: Client):
    policy = client.get("/offline/")["Content-Security-Policy"]

    assert "manifest-src 'self'" in policy
    assert "worker-src 'self'" in policy
