// Turns on web push for this browser: asks for permission, subscribes, and sends the form with the subscription.
(() => {
  const button = document.querySelector("[data-push]");
  const say = (text) => { document.querySelector("#push-problem").textContent = text; };
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));

  async function subscribe() {
    if (!("serviceWorker" in navigator && "PushManager" in window)) {
      say("This browser has no push notifications. On an iPhone or iPad, add the pages to the home screen, and open them from there.");
      return;
    }
    if (await Notification.requestPermission() !== "granted") {
      say("Notifications are not allowed for this site: allow them in the settings of the browser.");
      return;
    }
    await navigator.serviceWorker.register(document.documentElement.dataset.worker);
    const { pushManager } = await navigator.serviceWorker.ready, key = button.dataset.push;
    // The browser refuses a new subscription while there is one with another key.
    await (await pushManager.getSubscription())?.unsubscribe();
    const { endpoint, keys } = (await pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(key) })).toJSON();
    for (const [name, value] of Object.entries({ endpoint, key, ...keys })) button.form.elements[name].value = value;
    button.form.requestSubmit();
  }
  button?.addEventListener("click", () => subscribe().catch((error) => say(`The browser could not switch them on: ${error.message}`)));
})();
