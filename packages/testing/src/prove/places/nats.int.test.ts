import { connect } from '@nats-io/transport-node'
import { expect, test } from 'vitest'
import { nats } from '../../servers/nats/nats.ts'
import { skipped } from '../../servers/run/server.ts'
import { openPlace } from './index.ts'

// Red when the user of a URL is not given to the client, which reads none there.
test.skipIf(skipped('nats'))(
  'a place on a server with users counts what waits, and leaves nothing',
  async () => {
    const settings = 'authorization { user: prover, password: "p@ss" }'
    const server = await nats({ native: true, settings })
    const { host, port } = server.connection
    const place = await openPlace({ broker: 'nats', url: `nats://prover:p%40ss@${host}:${port}` })
    const { stream } = place.where
    expect(await place.waiting()).toBe(0)
    await place.send([{ body: '{"id":1}', headers: { lane: 'a' } }])
    expect(await place.waiting()).toBe(1)
    expect(await place.dead()).toBe(0)

    const given = { servers: `${host}:${port}`, user: 'prover', pass: 'p@ss' }
    const connection = await connect(given)
    const names = async (): Promise<unknown> =>
      (await connection.request('$JS.API.STREAM.NAMES')).json<{ streams: unknown }>().streams
    expect(await names()).toEqual(expect.arrayContaining([stream]))
    await place[Symbol.asyncDispose]()
    expect(await names()).toBeNull()
    await connection.close()
    await server.stop()
  },
)
