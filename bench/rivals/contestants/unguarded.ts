import { inTransaction, write } from '../../load/effects.ts'
import { consumeByHand } from '../by-hand.ts'
import { openPool } from '../database.ts'
import { toOrder } from '../orders.ts'
import type { Rival } from '../rival.ts'

/** No guard: an event that is delivered twice is written twice. */
export const unguarded: Rival = {
  name: 'unguarded',
  hasRedis: false,
  setUp: async () => undefined,
  consume: async (surroundings) => {
    const stack = new AsyncDisposableStack()
    const pool = openPool(surroundings, stack)
    stack.use(
      consumeByHand(surroundings, (message) =>
        inTransaction(pool, (tx) => write(tx, toOrder(message))),
      ),
    )
    return stack
  },
}
