// Send a request, with the key if there is one, and explain a refusal.
import { askForKey, authorization, forgetKey, storedKey } from "./key.js";

export class RefusedError extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

// Returns the response, whatever the body is; asks for a key for as long as the service says 401.
export async function open(path, options = {}) {
  for (;;) {
    const used = storedKey();
    const headers = { ...(options.headers ?? {}), ...authorization() };
    const response = await fetch(path, { ...options, headers, cache: "no-store" });
    if (response.ok) return response;
    if (response.status === 401) {
      if (used === storedKey()) {
        if (used) forgetKey();
        try {
          await askForKey(Boolean(used));
        } catch (error) {
          throw new RefusedError(error.message, 401);
        }
      }
      continue;
    }
    throw new RefusedError(await reason(response), response.status);
  }
}

export async function ask(path, options = {}) {
  const response = await open(path, { ...options, headers: { Accept: "application/json" } });
  return response.json();
}

export async function send(method, path, body) {
  const options = body === undefined ? {} : { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
  return (await open(path, { method, ...options })).json();
}

async function reason(response) {
  try {
    const problem = await response.json();
    if (problem.detail) return problem.detail;
  } catch {
    // a proxy answered
  }
  return `the service responded with status ${response.status}`;
}
