import { request } from 'node:http'

/** A phone gives up on an answer after this time and sends the same request again. */
const PATIENCE_MS = 1_000
const PAUSE_MS = 30
/** Phones that pay at the same time. */
const PHONES = 12

export interface Paying {
  readonly port: number
  readonly orders: number
  readonly signal: AbortSignal
  readonly onRequest: () => void
  readonly onPaid: (paid: number) => void
}

/** Every phone pays one order after the other, each with one key until it has an answer. */
export async function payAll({ port, orders, signal, onRequest, onPaid }: Paying): Promise<void> {
  let next = 0
  let paid = 0
  const phone = async (): Promise<void> => {
    while (next < orders) {
      next += 1
      await pay(next)
      paid += 1
      onPaid(paid)
    }
  }
  const pay = async (orderId: number): Promise<void> => {
    while ((await send(port, orderId, onRequest)) !== 201) {
      signal.throwIfAborted()
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
    }
  }
  await Promise.all(Array.from({ length: PHONES }, phone))
}

/** The status of the answer; undefined without one. */
function send(port: number, orderId: number, onRequest: () => void): Promise<number | undefined> {
  onRequest()
  const text = JSON.stringify({ orderId })
  return new Promise((resolve) => {
    const sent = request({
      agent: false,
      ...{ port, method: 'POST', path: '/charges', timeout: PATIENCE_MS },
      headers: {
        'content-type': 'application/json',
        'content-length': text.length,
        'idempotency-key': `"order-${orderId}"`,
      },
    })
    sent.on('timeout', () => sent.destroy())
    sent.on('error', () => resolve(undefined))
    sent.on('close', () => resolve(undefined))
    sent.on('response', (response) => {
      response.resume()
      response.on('end', () => resolve(response.statusCode))
      response.on('error', () => resolve(undefined))
    })
    sent.end(text)
  })
}
