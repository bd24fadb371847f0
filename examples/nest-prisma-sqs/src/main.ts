import 'reflect-metadata'
import { NestFactory } from '@nestjs/core'
import { AppModule } from './app.ts'

console.log(`worker ${process.pid}`)
const app = await NestFactory.createApplicationContext(AppModule)
// SIGTERM and Ctrl-C: running handlers end, and nothing new begins.
app.enableShutdownHooks()
