import { randomUUID } from 'node:crypto'
import { createHttpGuard, type HttpGuard, HttpProblem } from '@onceward/http'
import { pgInbox } from '@onceward/postgres/pg'
import type { Pool, PoolClient } from 'pg'
import { silent } from '../../packages/http/src/fixtures/charges.ts'
import type { InboxHttpOptions } from '../../packages/http/src/options.ts'

/** What the handler does in the end, as a header of the request says. Every deed but `refuse` writes before. */
export const DEEDS = ['charge', 'decline', 'throw', 'busy', 'stream', 'huge', 'keep-402'] as const
export type Deed = (typeof DEEDS)[number]

/** A guard on Postgres, whose handler charges and then does what the request says. */
export function chargesOn(
  pool: Pool,
  more: Partial<InboxHttpOptions<unknown, PoolClient>> = {},
): HttpGuard {
  const tenant = ({ headers }: { readonly headers: Headers }): string | undefined =>
    headers.get('x-account') ?? undefined
  const options = { consumer: 'charges', inbox: pgInbox(pool), tenant, logger: silent, ...more }
  return createHttpGuard(options, async ({ key, request }, { tx }) => {
    const id = randomUUID()
    await tx.query('insert into charges (id, key, cents) values ($1, $2, 1)', [id, key])
    const deed = request.headers.get('x-deed') as Deed
    switch (deed) {
      case 'decline':
        throw new HttpProblem({ status: 402, title: 'declined', detail: id, store: true })
      case 'busy':
        throw new HttpProblem({ status: 429, title: 'busy', detail: id })
      case 'throw':
        throw new Error(`the card network is down (${id})`)
      case 'stream':
        return { body: new ReadableStream() as never }
      case 'huge':
        return { body: id.repeat(10_000) }
      case 'keep-402':
        return { status: 402, body: { id } }
      default:
        return { status: 201, headers: { location: `/charges/${id}` }, body: { id } }
    }
  })
}
