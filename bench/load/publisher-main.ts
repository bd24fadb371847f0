import { connect } from 'amqplib'
import { type PublishOrder, publish } from './publish.ts'

const [url = ''] = process.argv.slice(2)
process.on('disconnect', () => process.exit())
const connection = await connect(url)
const channel = await connection.createConfirmChannel()
process.on('message', (order: PublishOrder) => {
  // A rejection ends this process, and with it the benchmark.
  void publish(channel, order).then(() => process.send?.('done'))
})
process.send?.('ready')
