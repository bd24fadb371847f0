import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { headersOf } from '../../packages/http/src/fixtures/webhooks.ts'
import type { Charge, Edge } from './protocol.ts'

/** An answer as a client keeps it. */
export interface Answer {
  readonly status: number
  readonly type: string | null
  readonly location: string | null
  readonly sha256: string
  readonly replayed: boolean
}

/** What a client sends to a route, or a provider to a webhook. */
export interface Payment {
  readonly edge: Edge
  readonly key: string
  readonly charge: Charge
}

/** Sends once. Rejects if there is no whole answer. */
export async function send(url: string, { charge, edge, key }: Payment): Promise<Answer> {
  const body = JSON.stringify(charge)
  const named =
    edge === 'request'
      ? { 'idempotency-key': key }
      : headersOf('standard', { id: key, body, atMs: Date.now() })
  const response = await fetch(`${url}/charges`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-account': 'a', ...named },
    body,
    signal: AbortSignal.timeout(20_000),
  })
  const bytes = Buffer.from(await response.arrayBuffer())
  const { headers, status } = response
  return {
    status,
    type: headers.get('content-type'),
    location: headers.get('location'),
    sha256: createHash('sha256').update(bytes).digest('hex'),
    replayed: headers.get('idempotency-replayed') === 'true',
  }
}

/** What a client is told to retry: docs/client-contract.md. A provider delivers until it gets 2xx. */
const isToRetry = (edge: Edge, status: number): boolean =>
  edge === 'request' ? status === 409 || status >= 500 : status < 200 || status > 299

/** Sends until there is an answer that need not be retried. `url` is asked before every try. */
export async function pay(url: () => string, payment: Payment): Promise<Answer> {
  const deadlineAt = Date.now() + 60_000
  for (;;) {
    const answer = await send(url(), payment).catch(() => undefined)
    if (answer !== undefined && !isToRetry(payment.edge, answer.status)) return answer
    if (Date.now() > deadlineAt) throw new Error(`no answer in time, last ${answer?.status}`)
    // Sooner than the contract says, because the test has no time to lose.
    await pause(50)
  }
}

/** The part of an answer that must be the same in every retry. */
export const lasting = ({ replayed: _, ...rest }: Answer): Omit<Answer, 'replayed'> => rest
