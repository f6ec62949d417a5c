// Caches static files and the offline page; never a page with anybody's data.
const OFFLINE = "{{ offline|escapejs }}", STATIC = "{{ static_files|escapejs }}";
const KEPT = [OFFLINE{% for file in kept %}, "{{ file|escapejs }}"{% endfor %}];
const CACHE = `cronty ${KEPT.join(" ")}`;
self.addEventListener("install", (event) => event.waitUntil(
  caches.open(CACHE).then((cache) => cache.addAll(KEPT.map((path) => new Request(path, { credentials: "omit" })))).then(() => self.skipWaiting())
));
self.addEventListener("activate", (event) => event.waitUntil(
  caches.keys().then((names) => Promise.all(names.filter((name) => name !== CACHE).map((name) => caches.delete(name)))).then(() => self.clients.claim())
));
self.addEventListener("push", (event) => {
  const { title, body, key, url, links = [] } = event.data?.json() ?? { title: "Cronty" };
  event.waitUntil(self.registration.showNotification(title, {
    body, tag: key, icon: "{{ icon|escapejs }}", data: { url, links },
    actions: links.map(({ label }, index) => ({ action: String(index), title: label })),
  }));
});
self.addEventListener("notificationclick", (event) => {
  const { url, links = [] } = event.notification.data ?? {};
  event.notification.close();
  event.waitUntil(self.clients.openWindow((event.action && links[event.action]?.url) || url || "{{ start|escapejs }}"));
});
self.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  if (request.mode === "navigate") event.respondWith(fetch(request).catch(() => caches.match(OFFLINE)));
  else if (request.url.startsWith(STATIC)) event.respondWith(fetch(request).catch(() => caches.match(request).then((kept) => kept ?? Response.error())));
});
