import { type Contestant, inLanes } from '../../runner/rounds.ts'
import { Clients, newOrders } from './client.ts'
import type { RivalServer } from './server.ts'

/** Requests in flight. */
const WIDTH = 16

async function postAll(port: number, orders: ReturnType<typeof newOrders>): Promise<void> {
  using clients = new Clients(WIDTH)
  await inLanes(orders, WIDTH, async (order) => {
    const { status, body } = await clients.post(port, order)
    if (status !== 201) throw new Error(`answered ${status}: ${body.slice(0, 200)}`)
  })
}

/** New orders. */
export const freshOrders = (name: string, { port }: RivalServer): Contestant => ({
  name,
  prepare: async (events) => {
    const orders = newOrders(events)
    return () => postAll(port, orders)
  },
})

/** Orders that were answered before. */
export const retriedOrders = (name: string, { port }: RivalServer): Contestant => ({
  name,
  prepare: async (events) => {
    const orders = newOrders(events)
    await postAll(port, orders)
    return () => postAll(port, orders)
  },
})
