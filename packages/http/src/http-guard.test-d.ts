import type { Inbox, LeaseStore } from '@onceward/core'
import { expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { createHttpGuard, type HttpGuard } from './http-guard.ts'
import type { HttpRequest } from './request/request.ts'

interface Tx {
  query(text: string): Promise<unknown>
}
declare const inbox: Inbox<Tx>
declare const leases: LeaseStore
const tenant = (request: HttpRequest) => request.headers.get('x-account') ?? undefined

test('the payload has the type of the schema, and tx that of the inbox', () => {
  const schema = z.object({ cents: z.number() })
  const guard = createHttpGuard({ consumer: 'c', inbox, schema, tenant }, ({ payload }, { tx }) => {
    expectTypeOf(payload).toEqualTypeOf<{ cents: number }>()
    expectTypeOf(tx).toEqualTypeOf<Tx>()
  })
  expectTypeOf(guard).toEqualTypeOf<HttpGuard>()
})

test('without a schema the payload is unknown, and without an inbox there is no tx', () => {
  createHttpGuard(
    { consumer: 'c', leases, onTakeover: 'retry', tenant: 'none' },
    (event, { tx }) => {
      expectTypeOf(event.payload).toEqualTypeOf<unknown>()
      expectTypeOf(tx).toEqualTypeOf<undefined>()
      return Response.json({})
    },
  )
})

test('what nobody decided does not compile', () => {
  // @ts-expect-error whose keys they are must be said
  createHttpGuard({ consumer: 'c', inbox }, () => undefined)
  // @ts-expect-error a row is no answer
  createHttpGuard({ consumer: 'c', inbox, tenant }, () => ({ chargeId: 1 }))
  // @ts-expect-error a takeover must be decided
  createHttpGuard({ consumer: 'c', leases, tenant }, () => undefined)
})
