import { fastify } from 'fastify'

export interface Charge {
  readonly chargeId: string
  readonly cents: number
}

export interface PaymentsOptions {
  /** Whether a key that was charged before is answered with that charge. Without it every request charges. */
  readonly dedups: boolean
  /** The first requests, which are answered 503 and charge nothing. */
  readonly refusals?: number | undefined
  /** Charges are answered only after this. */
  readonly answersAfter?: Promise<void> | undefined
}

/** An HTTP API for payments, like a provider's, on a port of its own. */
export interface Payments extends AsyncDisposable {
  readonly url: string
  /** The keys of all requests to charge, in order, refused ones included. */
  readonly requested: readonly string[]
  /** How often each idempotency key was charged. */
  charges(): Readonly<Record<string, number>>
  /** So many lookups are answered 503. */
  refuseLookups(count: number): void
}

interface Paid {
  readonly key: string
  readonly charge: Charge
}

export async function openPayments(options: PaymentsOptions): Promise<Payments> {
  const { dedups, refusals = 0, answersAfter } = options
  const api = fastify()
  const requested: string[] = []
  const paid: Paid[] = []
  const find = (key: string): Charge | undefined => paid.find((one) => one.key === key)?.charge
  let refusedLookups = 0

  api.post<{ Body: { readonly cents: number } }>('/charges', async (request, reply) => {
    const key = String(request.headers['idempotency-key'])
    requested.push(key)
    if (requested.length <= refusals) return reply.code(503).send()
    const known = dedups ? find(key) : undefined
    if (known !== undefined) return reply.send(known)
    const charge = { chargeId: `charge-${paid.length + 1}`, cents: request.body.cents }
    paid.push({ key, charge })
    await answersAfter
    return reply.code(201).send(charge)
  })
  api.get<{ Params: { readonly key: string } }>('/charges/:key', ({ params }, reply) => {
    if (refusedLookups > 0) {
      refusedLookups -= 1
      return reply.code(503).send()
    }
    const charge = find(params.key)
    return charge === undefined ? reply.code(404).send() : reply.send(charge)
  })

  return {
    url: await api.listen({ host: '127.0.0.1', port: 0 }),
    requested,
    charges: () => {
      const counts = Map.groupBy(paid, ({ key }) => key)
      return Object.fromEntries([...counts].map(([key, all]) => [key, all.length]))
    },
    refuseLookups: (count) => {
      refusedLookups = count
    },
    [Symbol.asyncDispose]: () => api.close(),
  }
}
