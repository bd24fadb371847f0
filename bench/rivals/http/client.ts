import { randomUUID } from 'node:crypto'
import { Agent, request } from 'node:http'
import type { Order } from '../../load/effects.ts'

/** A client gives up on a request after this time. */
const TIMEOUT_MS = 2_000

export interface Answer {
  readonly status: number
  readonly body: string
}

/** Clients that keep their connections. */
export class Clients implements Disposable {
  readonly #agent: Agent

  constructor(width: number) {
    this.#agent = new Agent({ keepAlive: true, maxSockets: width })
  }

  /** @throws Whatever ends the connection. */
  post(port: number, order: Order): Promise<Answer> {
    const text = JSON.stringify(order)
    return new Promise((resolve, reject) => {
      const headers = {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(text),
        'idempotency-key': `"${order.orderId}"`,
      }
      const to = { port, method: 'POST', path: '/orders', headers, timeout: TIMEOUT_MS }
      const sent = request({ agent: this.#agent, ...to })
      sent.on('timeout', () => sent.destroy(new Error('no answer in time')))
      sent.on('error', reject)
      sent.on('response', (response) => {
        let body = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => {
          body += chunk
        })
        response.on('error', reject)
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
      })
      sent.end(text)
    })
  }

  [Symbol.dispose](): void {
    this.#agent.destroy()
  }
}

export const newOrders = (count: number): readonly Order[] =>
  Array.from({ length: count }, () => ({ orderId: randomUUID(), cents: 1_999 }))
