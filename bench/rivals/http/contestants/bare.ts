import express from 'express'
import { inTransaction } from '../../../load/effects.ts'
import { openPool } from '../../database.ts'
import { charge, type Receipt } from '../order.ts'
import { type HttpRival, nothingToSetUp } from '../rival.ts'

/** No guard: each request is a new order. */
export const bare: HttpRival = {
  name: 'bare',
  hasRedis: false,
  setUp: nothingToSetUp,
  serve: async (app, place) => {
    const pool = openPool(place, new AsyncDisposableStack())
    app.post('/orders', express.json(), async (request, response) => {
      let receipt: Receipt | undefined
      await inTransaction(pool, async (tx) => {
        receipt = await charge(tx, request.body)
      })
      response.status(201).json(receipt)
    })
  },
}
