// @module-tag nightly

import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { expect, test } from 'vitest'
import { skipped } from '../run/server.ts'
import { nats } from './nats.ts'

test.skipIf(skipped('nats'))(
  'a killed NATS server restarts on its port with every message it confirmed',
  async ({ skip }) => {
    await using server = await nats()
    skip(!server.canKill, 'the server belongs to the user')
    const connection = await connect({
      ...{ servers: server.connection.url, maxReconnectAttempts: -1, reconnectTimeWait: 50 },
    })
    const { streams } = await jetstreamManager(connection)
    await streams.add({ name: 'ORDERS', subjects: ['orders.>'] })
    await jetstream(connection).publish('orders.1', 'charged')
    await server.kill('SIGKILL')
    expect(server.pid).toBeUndefined()
    await server.restart()
    await expect
      .poll(() => streams.info('ORDERS').then(({ state }) => state.messages), { timeout: 10_000 })
      .toBe(1)
    await connection.close()
  },
)
