import { createGuard } from '@onceward/core'
import { memoryInbox, toDelivery } from '@onceward/core/memory'

const options = { consumer: 'greeter', inbox: memoryInbox() }
const greeter = createGuard(options, async ({ payload }) => {
  console.log('hello', payload)
})
const delivery = toDelivery('world')
console.log(await greeter.process(delivery)) // { kind: 'ack', by: 'processed' }
console.log(await greeter.process(delivery)) // { kind: 'ack', by: 'duplicate' }: says hello once
