import { Idempotency } from '@node-idempotency/core'
import { RedisStorageAdapter } from '@node-idempotency/storage-adapter-redis'
import express from 'express'
import { inTransaction } from '../../../load/effects.ts'
import { openPool } from '../../database.ts'
import { charge, type Receipt } from '../order.ts'
import { type HttpRival, nothingToSetUp } from '../rival.ts'

/** @node-idempotency/core with its Redis storage. A request in flight is waited for, as with the guard. */
export const nodeIdempotency: HttpRival = {
  name: 'node-idempotency',
  hasRedis: true,
  setUp: nothingToSetUp,
  serve: async (app, place) => {
    const pool = openPool(place, new AsyncDisposableStack())
    const storage = new RedisStorageAdapter({ url: place.redisUrl })
    // While Redis is down this waits for it.
    void storage.connect()
    const keys = new Idempotency(storage, {
      inProgressStrategy: { wait: true, pollingIntervalMs: 50, maxWaitMs: 250 },
    })
    app.post('/orders', express.json(), async (request, response) => {
      const { method, path, headers, body } = request
      const asked = { method, path, headers, body }
      const stored = await keys.onRequest(asked).catch(() => 'in flight' as const)
      if (stored === 'in flight') {
        response.sendStatus(409)
        return
      }
      if (stored !== undefined) {
        response.status(201).json(stored.body)
        return
      }
      let receipt: Receipt | undefined
      await inTransaction(pool, async (tx) => {
        receipt = await charge(tx, request.body)
      })
      await keys.onResponse(asked, { body: receipt })
      response.status(201).json(receipt)
    })
  },
}
