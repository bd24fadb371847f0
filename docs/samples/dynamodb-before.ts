import type { SQSHandler } from 'aws-lambda'

export const handler: SQSHandler = async ({ Records }) => {
  for (const { body } of Records) {
    const { orderId, mail } = JSON.parse(body)
    await fetch('https://mail.example/send', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ to: mail, order: orderId }),
    })
  }
}
