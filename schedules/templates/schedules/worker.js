// Keeps static files and the page for when there is no connection; no page with anybody's data is ever kept.
const OFFLINE = "{{ offline|escapejs }}", STATIC = "{{ static_files|escapejs }}";
const KEPT = [OFFLINE{% for file in kept %}, "{{ file|escapejs }}"{% endfor %}];
const CACHE = `cronty ${KEPT.join(" ")}`;
self.addEventListener("install", (event) => event.waitUntil(
  caches.open(CACHE).then((cache) => cache.addAll(KEPT.map((path) => new Request(path, { credentials: "omit" })))).then(() => self.skipWaiting())
));
self.addEventListener("activate", (event) => event.waitUntil(
  caches.keys().then((names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name)))).then(() => self.clients.claim())
));
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  if (request.mode === "navigate") event.respondWith(fetch(request).catch(() => caches.match(OFFLINE)));
  else if (request.url.startsWith(STATIC)) event.respondWith(fetch(request).catch(() => caches.match(request).then((kept) => kept ?? Response.error())));
});
