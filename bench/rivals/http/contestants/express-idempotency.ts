import express from 'express'
import { getSharedIdempotencyService, idempotency } from 'express-idempotency'
import { inTransaction } from '../../../load/effects.ts'
import { openPool } from '../../database.ts'
import { charge, type Receipt } from '../order.ts'
import { type HttpRival, nothingToSetUp } from '../rival.ts'

/** express-idempotency as its README shows it: the answers are kept in the memory of the process. */
export const expressIdempotency: HttpRival = {
  name: 'express-idempotency',
  hasRedis: false,
  setUp: nothingToSetUp,
  serve: async (app, place) => {
    const pool = openPool(place, new AsyncDisposableStack())
    app.post('/orders', express.json(), idempotency(), async (request, response) => {
      if (getSharedIdempotencyService().isHit(request)) return
      let receipt: Receipt | undefined
      await inTransaction(pool, async (tx) => {
        receipt = await charge(tx, request.body)
      })
      response.status(201).json(receipt)
    })
  },
}
