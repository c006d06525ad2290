// Ask for the API key when the service wants one, and keep it for this tab alone.

const NAME = "obil-key";
let asking = null;

export function storedKey() {
  return sessionStorage.getItem(NAME);
}

export function authorization() {
  const key = storedKey();
  return key ? { Authorization: `Bearer ${key}` } : {};
}

export function forgetKey() {
  sessionStorage.removeItem(NAME);
  window.dispatchEvent(new Event("obil-key"));
}

// Resolves once a key is given; rejects if the question is dismissed. Asked once, however many wait for it.
export function askForKey(refused) {
  asking ??= new Promise((resolve, reject) => {
    const dialog = document.getElementById("key");
    const form = dialog.querySelector("form");
    const input = document.getElementById("key-text");
    document.getElementById("key-why").textContent = refused
      ? "This key is wrong, expired or revoked. Enter another one."
      : "This service needs an API key with the scope “read”.";
    input.value = "";
    form.onsubmit = (event) => {
      event.preventDefault();
      sessionStorage.setItem(NAME, input.value.trim());
      input.value = "";
      dialog.onclose = null;
      dialog.close();
      asking = null;
      window.dispatchEvent(new Event("obil-key"));
      resolve();
    };
    dialog.onclose = () => {
      asking = null;
      reject(new Error("a key is needed to see the streams"));
    };
    if (!dialog.open) dialog.showModal();
  });
  return asking;
}
