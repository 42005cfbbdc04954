--  SPDX-License-Identifier: LGPL-2.1-or-later
--  Names of Ada: of a nested package, overloaded, of the body of a task.
with Ada.Text_IO;
procedure Travel is
   package Journeys is
      task type Worker;
      procedure Rest (N : Integer);
      procedure Rest (N : Float);
   end Journeys;
   package body Journeys is
      procedure Rest (N : Integer) is
      begin
         delay 1000.0;
         Ada.Text_IO.Put_Line (N'Image);
      end Rest;
      procedure Rest (N : Float) is
      begin
         Rest (Integer (N));
         Ada.Text_IO.Put_Line ("x");
      end Rest;
      task body Worker is
      begin
         Rest (3.0);
         Ada.Text_IO.Put_Line ("y");
      end Worker;
   end Journeys;
   function Getpid return Integer;
   pragma Import (C, Getpid, "getpid");
   W : Journeys.Worker;
begin
   Ada.Text_IO.Put_Line ("ready" & Getpid'Image);
   Ada.Text_IO.Flush;
   Journeys.Rest (5);
end Travel;
