// The tests of the versions put one here that the version has generated.
export { type Prisma, PrismaClient } from '../../../docs/samples/prisma/generated/client.ts'
