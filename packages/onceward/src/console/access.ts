import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** Who may ask the console. */
export interface Access {
  /** Undefined: read-only on loopback, where no token is needed. */
  readonly token: string | undefined
  /** Names without a port under which the page may be asked for. */
  readonly hosts: ReadonlySet<string>
  /** Bound beyond loopback: any address is a name too. An attacker cannot make a page of an address that is not theirs. */
  readonly acceptsAddresses: boolean
  readonly allowsChanges: boolean
}

export interface Asked {
  readonly method: string
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

/** Why a request is refused. */
export interface Refusal {
  readonly status: 401 | 403 | 405 | 415 | 421
  readonly message: string
}

const IP = /^(?:\d{1,3}(?:\.\d{1,3}){3}|\[[0-9a-f:.]+\])$/i

/**
 * Checks a request before anything is read. A page of another site must not be able to use the browser of an operator:
 * not by a name that resolves to this address (Host), not by a form or a script of its own (Origin, Sec-Fetch-Site), and
 * not with the operator's rights, because the token travels in a header that only our page sets.
 */
export function refusalOf(asked: Asked, access: Access): Refusal | undefined {
  const { headers, method, path } = asked
  if (!isOurs(headers.host, access)) {
    return {
      status: 421,
      message: 'The console does not answer under this name. Give it with --allowed-host.',
    }
  }
  if (method !== 'GET' && method !== 'POST' && method !== 'HEAD') {
    return { status: 405, message: 'Use GET or POST.' }
  }
  // Files of the page hold nothing secret.
  if (!path.startsWith('/api/')) {
    return method === 'POST' ? { status: 405, message: 'Use GET.' } : undefined
  }
  const site = headers['sec-fetch-site']
  if (site !== undefined && site !== 'same-origin') return ELSEWHERE
  if (headers.origin !== undefined && hostOf(headers.origin) !== headers.host) return ELSEWHERE
  if (access.token !== undefined && !isToken(headers.authorization, access.token)) {
    return { status: 401, message: 'The token is missing or wrong.' }
  }
  return method === 'POST' ? changeRefusal(headers, access) : undefined
}

const ELSEWHERE: Refusal = { status: 403, message: 'Only the page of the console may ask this.' }

function changeRefusal(headers: IncomingHttpHeaders, access: Access): Refusal | undefined {
  if (!access.allowsChanges || access.token === undefined) {
    return { status: 403, message: 'The console is read-only. Start it with --allow-changes.' }
  }
  if (headers.origin === undefined) return ELSEWHERE
  if (headers['content-type'] !== 'application/json') {
    return { status: 415, message: 'Send application/json.' }
  }
  return undefined
}

/** The name of the Host header without its port: the port is ours already, the name may be an attacker's. */
function isOurs(
  host: string | undefined,
  { acceptsAddresses, hosts }: Pick<Access, 'acceptsAddresses' | 'hosts'>,
): boolean {
  if (host === undefined) return false
  const name = host.replace(/:\d+$/, '').toLowerCase()
  return hosts.has(name) || (acceptsAddresses && IP.test(name))
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined
}

/** Compares digests, so that the time says nothing about the token, nor about its length. */
function isToken(authorization: string | undefined, token: string): boolean {
  const given = /^Bearer (.+)$/.exec(authorization ?? '')?.[1] ?? ''
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest()
  return timingSafeEqual(digest(given), digest(token))
}

export const LOOPBACK: ReadonlySet<string> = new Set(['127.0.0.1', '[::1]', 'localhost'])

/** The page loads nothing from elsewhere, is in no frame, and makes no HTML of texts. */
export const HEADERS: Readonly<Record<string, string>> = {
  'cache-control': 'no-store',
  'content-security-policy': [
    ...["default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'"],
    ...["img-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
    ...["require-trusted-types-for 'script'", "trusted-types 'none'"],
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}
