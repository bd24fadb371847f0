// Questions to the server, with the token that stood behind the `#` of the first address.

const KEY = 'onceward-token'
let token = ''

/** Takes the token out of the address, so that it is in no bookmark and no screenshot. */
export function takeToken() {
  const given = /^#token=(.+)$/.exec(location.hash)?.[1]
  if (given !== undefined) {
    setToken(decodeURIComponent(given))
    history.replaceState(undefined, '', `${location.pathname}#/`)
  } else token = sessionStorage.getItem(KEY) ?? ''
}

export function setToken(text) {
  token = text.trim()
  sessionStorage.setItem(KEY, token)
}

export class AskError extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

/** Longer than the server's own limit for a statement. */
const ANSWER_MS = 40_000
/** A change waits for locks, and a requeue for its broker. */
const CHANGE_MS = 90_000

async function answerOf(path, { limitMs = ANSWER_MS, ...init } = {}) {
  const headers = { ...init.headers, ...(token === '' ? {} : { authorization: `Bearer ${token}` }) }
  const signal = AbortSignal.timeout(limitMs)
  let response
  try {
    response = await fetch(path, { ...init, headers, signal, cache: 'no-store' })
  } catch {
    throw new AskError(0, 'The console does not answer. Is it still running?')
  }
  const body = await response.json().catch(() => ({}))
  if (!response.ok) throw new AskError(response.status, body.error ?? `Answer ${response.status}`)
  return body
}

/** @param query - Names and texts; empty ones are left out. */
export function ask(name, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value)
  return answerOf(`api/${name}?${new URLSearchParams(given)}`)
}

export function change(name, body) {
  return answerOf(`api/${name}`, {
    method: 'POST',
    limitMs: CHANGE_MS,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
}
