import { rabbitmq, skipped } from '@onceward/testing'
import { erlang } from '@onceward/testing/adapter'
import { connect } from 'amqplib'
import { expect, test } from 'vitest'
import { operate } from './operator.ts'

const PASSWORD = 'zürich 鍵 100% @/🔑'

const user = (name: string, password: string): string =>
  `rabbit_auth_backend_internal:add_user(<<"${name}">>, <<${[...Buffer.from(password)].join()}>>, <<"test">>), ` +
  `rabbit_auth_backend_internal:set_permissions(<<"${name}">>, <<"/">>, <<".*">>, <<".*">>, <<".*">>, <<"test">>).`

// Red when amqplib reads the password out of a URL: it takes each byte of a character for a character.
test.skipIf(skipped('rabbitmq'))(
  'an operator whose password is in any script is let in, from the environment and from the URL',
  async () => {
    await using server = await rabbitmq({ native: true })
    const evaluate = erlang(server)
    if (evaluate === undefined) throw new Error('expected a node of our own')
    await evaluate(user('operator', PASSWORD))
    const connection = await connect(server.connection.url)
    await (await connection.createChannel()).assertQueue('orders')
    await connection.close()

    const { host } = new URL(server.connection.url)
    const operated = (credentials: string, password: string) =>
      operate({
        url: `amqp://operator${credentials}@${host}`,
        params: new URLSearchParams('queue=orders'),
        env: { AMQP_PASSWORD: password },
      })
    const orders = { broker: 'amqp', queue: 'orders' }
    await using fromEnvironment = operated('', PASSWORD)
    await fromEnvironment.ready(orders)
    await using fromUrl = operated(`:${encodeURIComponent(PASSWORD)}`, 'wrong')
    await fromUrl.ready(orders)
    await using wrong = operated('', 'wrong')
    await expect(wrong.ready(orders)).rejects.toThrow('ACCESS')
  },
  120_000,
)
